-- The log of a rolling plan, or of a user's cap: a sorted set of admissions. This file is put before every script that
-- decides or charges an admission.
--
--   member = token of the admission, score = its moment in µs, which is positive. Where a later admission has the same
--            token, "/" and the moment follow it.
--   /n     minus the largest max, and
--   /t     minus the longest per in µs, of all rules that the log was ever charged under
--   /      the moment of the newest admission that was cut off, see charge_log
--   /-…    an admission that was cut off and counts again, because a newer one was refunded
--
-- An admission leaves the log only when no rule that was in force since the log began can see it, and none would after
-- a refund: it is older than /t, and beyond the newest /n.

local redis, KEYS, ARGV = redis, KEYS, ARGV

-- Keys live this much longer (in ms) than they are needed. An engine may remove them early (the embedded one by half a
-- second), and to forget a window early is to break a limit.
local SLACK = 1000

-- A log holds at most this many admissions beyond /n. Only bypasses make it that long. Each of them may be refunded,
-- and then those before it count again.
local ROOM = 64

-- digits writes a whole number of up to 2^53 in full. Every number in a command is written by it, or is text already:
-- Redis itself writes numbers as if they were fractions, which takes longer than most commands.
local digits
do
  local moments = {} -- a script writes few of them, again and again

  function digits(n)
    if n >= 0 and n < 1e9 then return string.format('%d', n) end
    local text = moments[n] or string.format('%d', n)
    moments[n] = text
    return text
  end
end

-- now_micros returns the time in µs since the epoch.
local function now_micros()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- nth_newest returns the moment of the n-th newest admission in a log, or nil.
local function nth_newest(key, n)
  local rank = n == 1 and '0' or digits(n - 1)
  local score = tonumber(redis.call('ZREVRANGE', key, rank, rank, 'WITHSCORES')[2])
  if score and score > 0 then return score end
end

-- depth_of reads /n and /t, which have the lowest scores; 0 for one that is missing.
local function depth_of(key)
  local kept = redis.call('ZRANGE', key, '0', '1', 'WITHSCORES')
  local depth = { ['/n'] = 0, ['/t'] = 0 }
  for i = 1, #kept, 2 do
    if depth[kept[i]] then depth[kept[i]] = -tonumber(kept[i + 1]) end
  end
  return depth['/n'], depth['/t']
end

-- cut_off bounds a log that holds more admissions than `most`, although rules still see them. The moment of the newest
-- of those cut off stays for all of them: a refund puts it in the place of what it takes out.
local function cut_off(key, most)
  local excess = redis.call('ZCARD', key) - 2 - most
  if excess <= 0 then return end
  local newest = redis.call('ZRANGE', key, digits(2 + excess), digits(2 + excess), 'WITHSCORES')[2]
  redis.call('ZREMRANGEBYRANK', key, '2', digits(2 + excess))
  redis.call('ZADD', key, newest, '/')
end

local charge_log
do
  -- add puts an admission into a log. An earlier one with the same token is that of an earlier notification with the
  -- same id, and counts on under another name; at the same moment it is the same admission, restored once more.
  local function add(key, at, token)
    if redis.call('ZADD', key, 'NX', digits(at), token) == 1 then return end
    local earlier = tonumber(redis.call('ZSCORE', key, token))
    if earlier == at then return end
    redis.call('ZADD', key, digits(earlier), token .. '/' .. digits(earlier), digits(at), token)
  end

  -- charge_log adds an admission to a log. `log` holds the largest max and the longest per of the plan, and what is
  -- known of the log: the `newest` moment in it, and the `nth` newest for the largest max (nil: not known; false: there
  -- is none).
  function charge_log(key, log, now, at, token)
    local newest = log.newest
    if newest == nil then newest = nth_newest(key, 1) end
    local most, per = log.max, log.per
    if not newest then
      redis.call('ZADD', key, digits(at), token, digits(-most), '/n', digits(-per), '/t')
    else
      local n, t = depth_of(key)
      if n < most or t < per then
        most, per = math.max(n, most), math.max(t, per)
        redis.call('ZADD', key, digits(-most), '/n', digits(-per), '/t')
      else
        most, per = n, t
      end
      add(key, at, token)
      local beyond = log.nth
      if beyond == nil or most > log.max then beyond = nth_newest(key, most + 1) end
      if beyond then
        redis.call('ZREMRANGEBYSCORE', key, '0', digits(math.min(beyond, now - per)))
        if beyond > now - per then cut_off(key, most + ROOM) end
      end
    end
    log.newest, log.nth = math.max(newest or at, at), nil
    redis.call('PEXPIRE', key, digits(math.ceil((log.newest - now + per) / 1000) + SLACK))
  end
end
