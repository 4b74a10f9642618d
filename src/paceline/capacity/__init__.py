"""Memory arithmetic: pure functions that every part may import; it imports no other part."""
