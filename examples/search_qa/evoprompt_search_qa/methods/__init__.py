"""The inference methods of the paper's Table 1: one generator a method, one driver for all."""
