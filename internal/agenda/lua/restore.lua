-- restore counts admissions that were made before the partition lost its state, so that the limits still hold. Those of
-- deliveries in flight can be refunded.
--
-- KEYS[1]   the partition's prefix
-- ARGV[1]   token of the rebuild that the partition must be in, see requireRebuild
-- ARGV[2]   category
-- ARGV[3]   user
-- ARGV[4]   how many admissions
-- ARGV[5]   how many of the backlog were restored before these
-- ARGV[6]   1: more follow
-- ARGV[7…]  their moments in µs, oldest first, after a space the channel, if a cap needs it, and after a tab
--           "notification#generation" of a delivery in flight; then the plan, see read_plan
--
-- Result    1
local n, before = tonumber(ARGV[4]), tonumber(ARGV[5])
local plan, first = plan_of(7 + n, ARGV[2], ARGV[3]), tonumber(string.match(ARGV[7], '^%d+'))
local logs, counts = plan, plan.state_log.max > 0 and plan.algorithm ~= ROLLING
-- A log takes admissions in any order, and each of them once. Counters do neither. So their latest token reports how
-- many they have: the same command comes again when its reply was lost.
if counts then
  local counted = tonumber(string.match(counting().of(plan).token or '', '^~%d+#(%d+)') or nil)
  if counted == before + n then return 1 end
  if counted and counted ~= before then
    return redis.error_reply('ERR the admissions of ' .. ARGV[2] .. ' are restored out of order')
  end
  logs = { state_log = { max = 0 }, cap = plan.cap, cap_log = plan.cap_log, named = plan.named }
end
-- The category tells tokens of the same moment apart in the logs of caps: one round grants in several categories at the
-- same moment.
local name = string.sub(redis.sha1hex(ARGV[2]), 1, 16)
for i = 1, n do
  local at, channel, grant = string.match(ARGV[6 + i], '^(%d+) ?([^\t]*)\t?(.*)$')
  local token = '~' .. at .. '#' .. digits(before + i) .. '#' .. name
  logs.channel, at = channel ~= '' and channel, tonumber(at)
  if counts then
    -- All but the last are written as if it was now when the first was made. Otherwise the key would go as soon as all
    -- that it counts has passed, and those that follow would begin other windows than they did.
    counting().charge(plan, (i < n or ARGV[6] == '1') and first or now, at, token)
  end
  charge(logs, now, at, grant ~= '' and grant or token)
  local key = grant ~= '' and #plan.named > 0 and partition .. 'n:' .. string.match(grant, '^(.*)#')
  if key and redis.call('HGET', key, F.state) == S.sending then redis.call('HSET', key, F.caps, caps_of(logs)) end
end
return 1
