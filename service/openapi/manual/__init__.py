"""What the OpenAPI document says of each route, by hand: media types, headers, every error, units, examples."""
