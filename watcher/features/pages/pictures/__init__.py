"""Computes the drawings of pages: shapes in the units of inline SVG, and what they show in words. Pure, without I/O."""
