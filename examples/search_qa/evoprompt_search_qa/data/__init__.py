"""The questions of the real experiment: the seven sets, read, checked and written as parquet."""
