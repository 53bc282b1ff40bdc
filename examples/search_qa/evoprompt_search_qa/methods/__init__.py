"""Inference methods of the paper's Table 1: their steps and their texts."""
