"""Shared base of all visualizers: base class, timeline, links, SVG, text, colours and JavaScript."""
