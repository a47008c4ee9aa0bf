"""The checks of `verify`: small objects that one scan of a partition calls, in log order."""
