"""Arithmetic word problems of several steps, solved with a calculator by the model's tool calls."""
