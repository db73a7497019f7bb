"""Reinforcement learning: rollouts, and the algorithms on TRL's trainer."""
