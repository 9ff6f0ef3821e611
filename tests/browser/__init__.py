"""Tests of pages in a real browser: Debian's Chromium without a window, driven over its DevTools protocol."""
