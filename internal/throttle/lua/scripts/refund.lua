-- refund takes back an admission that surely had no effect. When the admission is not there, or not there any more,
-- nothing changes.
--
-- KEYS[1]  state of the plan
-- KEYS[2]  log of the user's cap
-- KEYS[3…] logs of the named caps
-- ARGV[1]  token of the admission
-- ARGV[2]  its moment in µs, as allow returned it
-- ARGV[3…] the plan, see read_plan
--
-- Result   1 when an admission was taken out, else 0
local plan = read_plan(3, KEYS[1], KEYS[2])
for n, cap in ipairs(plan.named) do cap.key = KEYS[2 + n] end
local token, at = ARGV[1], tonumber(ARGV[2])

-- in_a_cap reports whether the log of some cap knows the token.
local function in_a_cap()
  if plan.cap_log.max > 0 and redis.call('ZSCORE', plan.cap, token) then return true end
  for _, cap in ipairs(plan.named) do
    if redis.call('ZSCORE', cap.key, token) then return true end
  end
  return false
end

-- A counter knows only its latest token, the caps' logs some more. Any other may have been refunded already.
if plan.state_log.max > 0 and plan.algorithm ~= ROLLING and counting().of(plan).token ~= token and not in_a_cap() then
  return 0
end
return refund(plan, at, token) and 1 or 0
