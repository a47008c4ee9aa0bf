"""Run work: plans cut into splits, workers, pace and progress."""
