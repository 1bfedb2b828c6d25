"""What the API takes and gives, as OpenAPI sees it. Mirrors of app/domain; a test compares names and defaults."""
