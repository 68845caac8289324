"""Readers of Hugging Face model configurations, one module per kind of architecture."""
