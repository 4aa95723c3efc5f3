"""Offline datasets: experience that others collected."""
