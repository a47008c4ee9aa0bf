"""The checks of `verify`: small objects fed from one scan of a partition, in log order."""
