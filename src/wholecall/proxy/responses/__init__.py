"""Stored responses of the Responses API: the store and the parameters of a request."""
