"""Joins the parts: files to tables, tables to models, models to findings."""
