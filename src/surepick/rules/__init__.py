"""The parts algorithms are composed of: when to stop, which arm to pull, when to plan again."""
