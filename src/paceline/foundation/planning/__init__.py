"""Models, hardware and fleets as values, and the decisions about them."""
