"""Judging answers: the same functions reward in training and score in evaluation."""
