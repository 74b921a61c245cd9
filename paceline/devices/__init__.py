"""Devices: what workers compute on."""
