"""Fake boards that misbehave, and agents that are killed: what the product does then (`make torture`)."""
