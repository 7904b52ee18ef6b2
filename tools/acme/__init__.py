"""The generator of the example estate: a company that does not exist, its bills and its machines."""
