"""Recognises landing files by content and turns them into facts. It does not know where a file came from."""
