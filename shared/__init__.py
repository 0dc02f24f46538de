"""What two services must agree on, and nothing else.

Owns: the messages and where they travel (`messages`, `topology`, `asyncapi`), what makes a call the same call
(`canonical`), who may sign what (`signing`, `permit`), the tool catalogue (`catalog`), and the plumbing every
service shares so that a message is one transaction (`work`, `consumer`, `inbox`, `outbox`, `bus`).
Promises: never imports a service.
"""
