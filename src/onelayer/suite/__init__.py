"""The evaluation suite: named benchmarks, each run's records on them, and their scores."""
