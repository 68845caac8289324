"""Published measurements against predictions: reading, fitting, scoring."""
