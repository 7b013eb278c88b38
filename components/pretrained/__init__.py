"""A pretrained model that turns images into embeddings, from wherever it comes."""
