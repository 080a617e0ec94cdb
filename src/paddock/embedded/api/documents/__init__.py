"""What the API says about itself and how it shows objects to people: discovery, OpenAPI, tables, protobuf requests."""
