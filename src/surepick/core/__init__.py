"""The numerical core: arms, least squares, certified designs and evidence, on NumPy and SciPy alone."""
