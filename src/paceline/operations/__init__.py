"""What runs a deployment: checklist, diagnosis, manifests, metrics, and the view in a terminal."""
