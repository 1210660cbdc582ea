"""Bets: blocks, what they pay, and the wealth they add up to."""
