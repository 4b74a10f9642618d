"""Where models, drafters and hardware are read from: folders, tables, this machine."""
