"""The site that `make site` builds from `docs` (mkdocs.yml): what MkDocs does not do by itself."""
