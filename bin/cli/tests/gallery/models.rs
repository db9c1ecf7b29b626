//! Programs that fit models to data: textures, cameras, lenses, motions, and a classifier.
