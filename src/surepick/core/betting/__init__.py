"""The betting rule: blocks of pulls, the bets on them, and the wealth against each candidate."""
