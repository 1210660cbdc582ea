"""Plan before spending: how many pulls an experiment will take, from a guess of its answer; how noisy pulls are."""
