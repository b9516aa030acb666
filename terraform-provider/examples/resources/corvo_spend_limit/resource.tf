# $200 a month, in cents. Workers get no more jobs when it is spent.
resource "corvo_spend_limit" "this" {
  amount         = 20000
  action         = "hold"
  alert_percents = [50, 80, 100]
}
