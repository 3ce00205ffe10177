"""Plots and tables of finished work."""
