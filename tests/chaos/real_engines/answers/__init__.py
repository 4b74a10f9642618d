"""Judge the answers of real engines by the log probabilities that an engine computes for them."""
