"""Plans: how many pulls an experiment will take, from a guess of its answer; and how noisy one pull is."""
