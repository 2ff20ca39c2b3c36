"""Packed folders: pictures decoded once, stored so that training maps them into memory."""
