"""Studies: an experiment that lives for weeks, with many hands, crashes, corrections and auditors."""
