"""The demo: the tools of a shop's chat assistant, a model that needs no key, and a payment provider to talk to.

It is an example of what own code may rely on: `placet.tools`, and settings and resources of its own. `placet up` runs
it where no rulebook is named: `deploy/rulebook.yaml` names its tools as `shop.tools:search_products` and so on, and
`python/shop.model:reply` is its model.
"""
