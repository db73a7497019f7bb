"""Statistics of contribution: pure functions over records and manifests; no torch."""
