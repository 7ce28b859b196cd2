// Package night holds the night cases: what people see when something is wrong. Each case makes one trouble in a
// deployment of real processes, and then asks as somebody who was woken does: `dispatcher user`, `dispatcher explain`,
// the dashboard and the alerts. What each says stands in the table word by word, and names the cause. The page
// docs/night.md is written from the same table.
package night
