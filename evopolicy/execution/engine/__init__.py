"""Episodes on this machine's cores: the executor, its batches, workers and lanes."""
