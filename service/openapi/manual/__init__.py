"""The hand-written part of the OpenAPI document: media types, headers, errors, units and examples of each route."""
