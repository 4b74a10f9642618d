"""Vendor the schemas that the manifests are tested against."""
