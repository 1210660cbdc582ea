"""Plans: forecast the pulls of an experiment from a guess of its answer, and estimate the noise of one pull."""
